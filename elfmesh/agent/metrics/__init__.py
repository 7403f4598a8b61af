"""What an agent says of itself to those who watch it: numbers, one page of them."""
