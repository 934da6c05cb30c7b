package listen

// RootFirst is for tests.
var RootFirst = rootFirst
