"""What Baton does with a prompt: asyncio over Protocols, and nothing that knows an adapter."""
