"""What users write and what they are handed: tasks, their parameters, the context, durable steps."""
