package recordio

import "fmt"

// A Layout is one of the forms of a record file.
type Layout int

const (
	// Indexed ends with a footer that lists the chunks, and its checksums cover headers. It is what a Writer writes by default.
	Indexed Layout = iota
	// Plain is the layout of the Go library of PaddlePaddle: chunks and nothing else.
	Plain
	// Fluid is the layout of Fluid's C++ writer, which puts the number of records first. It is read, not written.
	Fluid
)

// String returns the name that commands use.
func (l Layout) String() string {
	switch l {
	case Indexed:
		return "indexed"
	case Plain:
		return "plain"
	case Fluid:
		return "fluid"
	default:
		return fmt.Sprintf("layout(%d)", int(l))
	}
}

// Sizes and first words of the parts of a file.
const (
	plainMagic  = 0x01020304 // of a chunk of Plain and Fluid
	chunkMagic  = 0x524c4445 // of a chunk of Indexed: "EDLR" in the file
	footerMagic = 0x464c4445 // "EDLF"
	endMagic    = "EDLINDEX" // the last bytes of a file

	magicBytes         = 4
	plainHeaderBytes   = 20
	indexedHeaderBytes = 24
	lengthBytes        = 4 // in front of every record

	footerHeadBytes = 8  // magic, version
	entryBytes      = 28 // of a chunk in the footer: its offset and all of its header but the magic
	trailerBytes    = 24 // records, chunks, checksum, endMagic
	footerVersion   = 2
)

func (l Layout) headerBytes() int64 {
	if l == Indexed {
		return indexedHeaderBytes
	}
	return plainHeaderBytes
}

// IsRecordFile reports whether a file that begins with head, at least 4 bytes, claims to be a record file.
func IsRecordFile(head []byte) bool {
	_, ok := layoutOf(head)
	return ok
}
