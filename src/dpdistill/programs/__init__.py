"""What is computed of one record or unit: pure functions, checked, compiled and tested before they meet one."""
