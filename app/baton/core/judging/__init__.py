"""What an answer is worth: its short form, agreement, checks by computing, faults and doubts."""
