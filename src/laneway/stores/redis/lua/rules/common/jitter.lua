-- needs: runtime/base
-- Jitter: how much later than its nominal time a fire is. This restates core.retry.share, a BLAKE2b digest of 6 bytes,
-- and the multiplication of a timedelta by it, to the microsecond: whoever plans a fire comes to the same time.
-- Only a fire that is counted from the end of a run is planned here; the others come planned.

local jitter = base.lazily(function(jitter)
local WORD = 4294967296  -- 2^32; a word of BLAKE2b is two of these, the high one and the low one

-- Return the first word of a text's BLAKE2b digest of 6 bytes, as its high and its low half.
local function digest(text)
  local bxor, bor, left, right, floor = bit.bxor, bit.bor, bit.lshift, bit.rshift
  local START = {
    0x6a09e667, 0xf3bcc908, 0xbb67ae85, 0x84caa73b, 0x3c6ef372, 0xfe94f82b, 0xa54ff53a, 0x5f1d36f1,
    0x510e527f, 0xade682d1, 0x9b05688c, 0x2b3e6c1f, 0x1f83d9ab, 0xfb41bd6b, 0x5be0cd19, 0x137e2179,
  }
  local ORDERS = {  -- of the words of a block, by round
    '0123456789abcdef', 'ea489fd61c02b753', 'b8c052fdae367194', '7931dcbe265a40f8', '905724afe1bc683d',
    '2c6a0b834d75fe19', 'c51fed4a0763928b', 'db7ec13950f4862a', '6fe9b308c2d714a5', 'a2847615fb9e3cd0',
    '0123456789abcdef', 'ea489fd61c02b753',
  }
  local MIXED = {  -- four words by column, then by diagonal
    {0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15},
    {0, 5, 10, 15}, {1, 6, 11, 12}, {2, 7, 8, 13}, {3, 4, 9, 14},
  }
  local v = {}  -- sixteen words: halves 2n + 1 and 2n + 2

  local function add(a, high, low)
    local sum = v[a + 1] + low
    v[a + 1] = sum % WORD
    v[a] = (v[a] + high + (sum >= WORD and 1 or 0)) % WORD
  end

  -- Let the word be what it is with another one mixed in, turned right by so many bits: 32, 24, 16 or 63.
  local function turn(a, b, bits)
    local high, low = bxor(v[a], v[b]), bxor(v[a + 1], v[b + 1])
    if bits == 32 then
      high, low = low, high
    elseif bits == 63 then
      high, low = bor(left(high, 1), right(low, 31)), bor(left(low, 1), right(high, 31))
    else
      high, low = bor(right(high, bits), left(low, 32 - bits)), bor(right(low, bits), left(high, 32 - bits))
    end
    v[a], v[a + 1] = high % WORD, low % WORD
  end

  local state = {unpack(START)}
  state[2] = bxor(state[2], 0x01010006) % WORD  -- no key, six bytes
  local blocks = max(1, math.ceil(#text / 128))
  for block = 1, blocks do
    local bytes = sub(text, 128 * block - 127, 128 * block)
    bytes = bytes .. string.rep('\0', 128 - #bytes)
    local words = {}
    for n = 0, 31 do
      local a, b, c, d = byte(bytes, 4 * n + 1, 4 * n + 4)
      words[n] = a + b * 256 + c * 65536 + d * 16777216
    end
    for n = 1, 16 do
      v[n], v[n + 16] = state[n], START[n]
    end
    v[26] = bxor(v[26], min(128 * block, #text)) % WORD
    if block == blocks then
      v[29], v[30] = WORD - 1 - v[29], WORD - 1 - v[30]
    end
    for round = 1, 12 do
      for n = 1, 8 do
        local a, b, c, d = unpack(MIXED[n])
        a, b, c, d = 2 * a + 1, 2 * b + 1, 2 * c + 1, 2 * d + 1
        local x = 2 * tonumber(sub(ORDERS[round], 2 * n - 1, 2 * n - 1), 16)
        local y = 2 * tonumber(sub(ORDERS[round], 2 * n, 2 * n), 16)
        add(a, v[b], v[b + 1])
        add(a, words[x + 1], words[x])
        turn(d, a, 32)
        add(c, v[d], v[d + 1])
        turn(b, c, 24)
        add(a, v[b], v[b + 1])
        add(a, words[y + 1], words[y])
        turn(d, a, 16)
        add(c, v[d], v[d + 1])
        turn(b, c, 63)
      end
    end
    for n = 1, 16 do
      state[n] = bxor(state[n], v[n], v[n + 16]) % WORD
    end
  end
  return state[1], state[2]
end

-- Return the share of a text as two numbers below 2^24: it is (first * 2^24 + second) / 2^48.
function jitter.share(text)
  local high, low = digest(text)
  local bytes = {}
  for n = 0, 3 do
    bytes[n] = math.floor(low / 256 ^ n) % 256
  end
  return bytes[0] * 65536 + bytes[1] * 256 + bytes[2],
    bytes[3] * 65536 + high % 256 * 256 + math.floor(high / 256) % 256
end

-- Return a text's share of a whole number below 2^53, rounded; of two that are as near, the even one.
function jitter.part(text, whole)
  local BASE = 16777216  -- 2^24: what is multiplied by halves of so many bits stays exact
  local first, second = jitter.share(text)
  local low, mid, high = whole % BASE, math.floor(whole / BASE) % BASE, math.floor(whole / BASE / BASE)
  local sum = second * low
  local rest = sum % BASE
  sum = math.floor(sum / BASE) + first * low + second * mid
  rest = rest + sum % BASE * BASE
  local part = math.floor(sum / BASE) + first * mid + second * high + first * high * BASE
  local half = BASE * BASE / 2
  if rest > half or (rest == half and part % 2 == 1) then
    part = part + 1
  end
  return part
end

-- Return when the job's fire of that nominal time is due, if nothing holds it back.
function jitter.spread(job_id, nominal, most)
  if most == 0 then
    return nominal
  end
  return nominal + jitter.part(job_id .. '/' .. base.digits(nominal), most)
end

end)
