// Package pages gives memory that goes back to the system when its user says so. The collector does not see it, so memory that is needed for seconds, beside much
// that stays, neither makes the heap larger nor waits for the next collection.
package pages

import "github.com/edl-go/edl/fault"

// An Area is memory that begins with zeros and takes nothing before it is written. Nobody may use it during
// Close or after it; Populate may run while others use it.
type Area struct {
	memory []byte
	all    []byte // of the system; nil where the collector has it
}

// New returns an area of so many bytes. large asks for large pages: for memory that is written from end to end.
func New(bytes int, large bool) (*Area, error) {
	if bytes < 0 {
		return nil, fault.E(fault.InvalidArgument, fault.Gotf("an area of %d bytes", bytes), fault.Want("none or more"))
	}
	return newArea(bytes, large)
}

// FilePrefix begins the name that the file of an area has before it has none.
const FilePrefix = "edl-table-"

// InFile returns an area of so many bytes whose memory is that of a file in dir, which nobody else can open: it has no name, and goes with the area. The system may
// write pages to the disk and take their memory, so an area may be larger than memory. All of it has its place on the disk when InFile returns: a disk that fills up later does
// not matter. Pages are read one by one, as lookups in a table need them. An area of files has no Release, and where the system has no such files the collector has it.
func InFile(dir string, bytes int) (*Area, error) {
	if bytes < 0 {
		return nil, fault.E(fault.InvalidArgument, fault.At(dir), fault.Gotf("an area of %d bytes", bytes), fault.Want("none or more"))
	}
	return newFile(dir, bytes)
}

// Bytes is the memory. Nobody may use it after Close.
func (a *Area) Bytes() []byte { return a.memory }
