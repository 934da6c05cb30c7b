package listen

// LostFirst is for tests.
var LostFirst = lostFirst

// CarryOver links the variables of one state into another one.
func CarryOver(dir, base string) error { return carryOver(dir, base) }
