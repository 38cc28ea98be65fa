"""Judges plans by executing them: the worlds of PlanBench, their sentences, and what models write as a plan.

`problem.read_problem` makes a `strips.Problem` of a prompt, `reading.read_plan` reads a model's plan, and
`strips.execute` runs it. Whatever plan reaches the goal is right.
"""
