//! What must survive the agent, and the ring of decision records.
