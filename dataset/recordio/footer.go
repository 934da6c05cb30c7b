package recordio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/edl-go/edl/fault"
)

// ErrIncomplete is the cause of the error for a file of the layout Indexed that does not end with a footer: it was cut, or its writer has
// not closed it yet.
var ErrIncomplete = errors.New("the file has no footer: it is cut short, or not written to its end yet")

// Finished reports whether a file of the layout Indexed ends as one with a footer, which it does not read. known is false for a file that does
// not begin as one of that layout: others do not tell whether they are whole.
func Finished(r io.ReaderAt, size int64) (finished, known bool, err error) {
	var head [magicBytes]byte
	var end [len(endMagic)]byte
	if size < magicBytes {
		return false, false, nil
	}
	if _, err := r.ReadAt(head[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return false, false, err
	}
	if layout, ok := layoutOf(head[:]); !ok || layout != Indexed {
		return false, false, nil
	}
	if size < footerHeadBytes+trailerBytes {
		return false, true, nil
	}
	if _, err := r.ReadAt(end[:], size-int64(len(end))); err != nil && !errors.Is(err, io.EOF) {
		return false, true, err
	}
	return string(end[:]) == endMagic, true, nil
}

// appendFooter writes the footer of a file of these chunks.
func appendFooter(dst []byte, chunks []Chunk) []byte {
	begin := len(dst)
	dst = appendWords(dst, footerMagic, footerVersion)
	records := int64(0)
	for _, c := range chunks {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(c.Offset))
		dst = c.header().appendIndexed(dst)
		records += c.Records
	}
	dst = binary.LittleEndian.AppendUint64(dst, uint64(records))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(chunks)))
	dst = binary.LittleEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[begin:]))
	return append(dst, endMagic...)
}

// A trailer is the end of a footer.
type trailer struct {
	offset   int64 // of the footer
	chunks   int64
	records  uint64
	checksum uint32
	sum      uint32 // so far
}

// readFooter fills the index of a file of the layout Indexed. Entries are checked as they come in: what a footer claims costs
// nothing before the file has shown it.
func (x *Index) readFooter(r io.ReaderAt) error {
	t, err := x.readTrailer(r)
	if err != nil {
		return err
	}
	var block [1024 * entryBytes]byte
	head := block[:footerHeadBytes]
	if err := readFull(x.Name, r, head, t.offset); err != nil {
		return err
	}
	if word := binary.LittleEndian.Uint32(head); word != footerMagic {
		return wrongMagic(x.Name, t.offset, word, footerMagic)
	}
	t.sum = crc32.ChecksumIEEE(head)
	if version := binary.LittleEndian.Uint32(head[magicBytes:]); version != footerVersion {
		return corrupt(x.Name, t.offset+magicBytes, fmt.Sprintf("footer version %d", version), fmt.Sprint(footerVersion))
	}
	at, left := t.offset+footerHeadBytes, t.chunks
	for left > 0 {
		n := min(left, int64(len(block)/entryBytes))
		entries := block[:n*entryBytes]
		if err := readFull(x.Name, r, entries, at); err != nil {
			return err
		}
		t.sum = crc32.Update(t.sum, crc32.IEEETable, entries)
		for ; len(entries) > 0; entries = entries[entryBytes:] {
			if err := x.readEntry(entries, at, t.offset); err != nil {
				return err
			}
			at += entryBytes
		}
		left -= n
	}
	return x.checkFooter(t)
}

// readTrailer reads the end of the file.
func (x *Index) readTrailer(r io.ReaderAt) (t trailer, err error) {
	var b [trailerBytes]byte
	incomplete := fault.E(fault.Corrupt, fault.At(place(x.Name, x.Bytes)), fault.Cause(ErrIncomplete))
	at := x.Bytes - trailerBytes
	if at < footerHeadBytes {
		return t, incomplete
	}
	if err := readFull(x.Name, r, b[:], at); err != nil {
		return t, err
	}
	if string(b[trailerBytes-len(endMagic):]) != endMagic {
		return t, incomplete
	}
	t.records = binary.LittleEndian.Uint64(b[:])
	t.chunks = int64(binary.LittleEndian.Uint32(b[8:]))
	t.checksum = binary.LittleEndian.Uint32(b[12:])
	if t.offset = at - t.chunks*entryBytes - footerHeadBytes; t.offset < t.chunks*(indexedHeaderBytes+lengthBytes) {
		return t, corrupt(x.Name, at, fmt.Sprintf("a footer of %d chunks in a file of %d bytes", t.chunks, x.Bytes), "a file that holds them")
	}
	if t.chunks > int64(x.limits.Chunks) {
		return t, tooLarge(x.Name, at, fmt.Sprintf("%d chunks", t.chunks), fmt.Sprintf("at most %d", x.limits.Chunks))
	}
	return t, nil
}

// readEntry takes the entry at byte at of the file: that of the chunk that begins where the one before ends.
func (x *Index) readEntry(b []byte, at, footer int64) error {
	offset := x.end()
	if got := binary.LittleEndian.Uint64(b); got != uint64(offset) {
		return corrupt(x.Name, at, fmt.Sprintf("a footer in which chunk %d begins at byte %d", len(x.Chunks), got), fmt.Sprint(offset))
	}
	if footer-offset < indexedHeaderBytes {
		return corrupt(x.Name, at, fmt.Sprintf("chunk %d at byte %d, where the footer is", len(x.Chunks), offset), "fewer chunks")
	}
	return x.add(offset, parseIndexed(b[8:]), footer-offset-indexedHeaderBytes)
}

// checkFooter compares the footer with its trailer.
func (x *Index) checkFooter(t trailer) error {
	at := x.Bytes - trailerBytes
	if end := x.end(); end != t.offset {
		return corrupt(x.Name, t.offset, fmt.Sprintf("chunks that end at byte %d, and a footer at %d", end, t.offset), "one behind the other")
	}
	if uint64(x.NumRecords()) != t.records {
		return corrupt(x.Name, at, fmt.Sprintf("%d records in all chunks", x.NumRecords()), fmt.Sprintf("%d, as the footer says", t.records))
	}
	var counts [12]byte
	binary.LittleEndian.PutUint64(counts[:], t.records)
	binary.LittleEndian.PutUint32(counts[8:], uint32(t.chunks))
	if sum := crc32.Update(t.sum, crc32.IEEETable, counts[:]); sum != t.checksum {
		return corrupt(x.Name, t.offset, fmt.Sprintf("a footer with checksum 0x%08x", sum), fmt.Sprintf("0x%08x", t.checksum))
	}
	return nil
}
