"""What users write and what they get: tasks, their parameters, the context, durable steps."""
