package listen

// LostFirst is for tests.
var LostFirst = lostFirst
