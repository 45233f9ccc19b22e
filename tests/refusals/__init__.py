"""What every public function says of arguments that it cannot take."""
