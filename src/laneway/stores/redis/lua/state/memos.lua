-- needs: runtime/base, runtime/cached_hash, state/runs
-- Memos: what a run keeps for its later attempts; see core/records/memos.py.
--
-- Hash `memos:<number>`: kind:name -> {order, kind, name, value, about, nth, attempt, run_id, tries, ending}. `value`
-- is JSON text, `ending` is {state, reason, message}; a missing one is false.

local memos = {}

local function memos_of(run)
  return cached_hash.of_family('memos:' .. base.digits(run.number))
end

-- Write a memo; it replaces one of the same kind and name. `memo` is as above, without its order.
function memos.keep(run, memo)
  local field, hash = memo[1] .. ':' .. memo[2], memos_of(run)
  if not hash:find(field) then
    run.memos = (run.memos or 0) + 1
  end
  run.memoed = (run.memoed or 0) + 1
  hash:put(field, {
    run.memoed, memo[1], memo[2], memo[3] or false, memo[4] or '', memo[5] or 0, memo[6] or 1, memo[7] or false,
    memo[8] or 0, memo[9] or false,
  })
end

-- Return the ids of the runs whose outcomes are among the memos, as a table of trues.
function memos.returned(run)
  local ids = {}
  if run.memos then
    for _, memo in pairs(memos_of(run):all()) do
      if memo[8] then
        ids[memo[8]] = true
      end
    end
  end
  return ids
end

-- Return what a run waits for from now on: new questions get their deadlines, and called runs that it waited for before
-- and that have not returned are among `others`.
function memos.stamped(run, wait)
  local known = memos.returned(run)
  for _, question in ipairs(wait.questions) do
    if not question[5] then
      question[5] = NOW + question[3]
    end
  end
  for _, called in ipairs(wait.calls) do
    known[called[2]] = true
  end
  local others = {}
  for _, id in ipairs(memos.called(run.wait)) do
    if not known[id] then
      others[#others + 1] = id
    end
  end
  return {questions = wait.questions, calls = wait.calls, others = others}
end

-- Return the ids of all called runs that may not have ended.
function memos.called(wait)
  local ids = {}
  if wait then
    for _, called in ipairs(wait.calls) do
      ids[#ids + 1] = called[2]
    end
    for _, id in ipairs(wait.others) do
      ids[#ids + 1] = id
    end
  end
  return ids
end

-- Return whether one of the called runs has ended already.
function memos.is_over(run)
  local returned = memos.returned(run)
  for _, called in ipairs(run.wait.calls) do
    if returned[called[2]] then
      return true
    end
  end
  return false
end
