"""Who answers: agents behind one protocol."""
