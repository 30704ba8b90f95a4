"""How does a frozen guardrail answer over HTTP, and how is it asked?"""
