-- needs: rules/control_call
-- Answer a question: {call, id, answer, name}. Returns the run; refuses with `not_waiting`, `several_questions` or
-- `other_question`.

-- Return the question of a run that an answer is for; else nil and the refusal.
local function question_for(questions, name)
  local names = {}
  for i, question in ipairs(questions) do
    if question[1] == name or (not name and #questions == 1) then
      return question
    end
    names[i] = question[1]
  end
  if name then
    return nil, base.refusal('other_question', names[1], name)
  end
  return nil, base.refusal('several_questions', unpack(names))
end

return control_call.make(function(run, args)
  local questions = run.state == 'waiting' and run.wait and run.wait.questions or {}
  if #questions == 0 then
    return base.refusal('not_waiting', run.state)
  end
  local question, other = question_for(questions, args[4])
  if not question then
    return other
  end
  if runs.deadline(run) <= NOW then
    control.expire(run)
    control_call.finish(run)
    return base.refusal('not_waiting', run.state)
  end
  control.answer(run, question, args[3])
end)
