-- needs: runtime/base
-- Jitter: how much later than its nominal time a fire is due; restates core/common/jitter.py. Only fires that are
-- counted from the end of a run are planned here, the others come planned.

local jitter = {}

-- Return a number in [0, 1) that depends on the text alone: the first 48 bits of its SHA-1.
local function share(text)
  local hex = redis.sha1hex(text)
  return (tonumber(sub(hex, 1, 6), 16) * 16777216 + tonumber(sub(hex, 7, 12), 16)) / 281474976710656
end

-- Return the text's share of a whole number, rounded down.
function jitter.part(text, whole)
  return math.floor(share(text) * whole)
end

-- Return when the job's fire of that nominal time is due, if nothing holds it back.
function jitter.spread(job_id, nominal, most)
  return nominal + jitter.part(job_id .. '/' .. base.digits(nominal), most)
end
