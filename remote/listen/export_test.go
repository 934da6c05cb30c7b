package listen

// RootFirst and LostFirst are for tests.
var (
	RootFirst = rootFirst
	LostFirst = lostFirst
)
