package recordio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/edl-go/edl/fault"
)

// A Layout is one of the forms of record files.
type Layout int

const (
	// Indexed ends with a footer that lists the chunks. Its checksums cover headers. A Writer writes it by default.
	Indexed Layout = iota
	// Plain is the layout of the Go library of PaddlePaddle: only chunks.
	Plain
	// Fluid is the layout of Fluid's C++ writer, with the number of records first. This package reads it and does not write it.
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
	lengthBytes        = 4 // before every record

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

// IsRecordFile reports whether a file that begins with head, of at least 4 bytes, has the magic number of a record file.
func IsRecordFile(head []byte) bool {
	_, ok := layoutOf(head)
	return ok
}

// A header is the part of a chunk before the payload, in any layout.
type header struct {
	checksum   uint32
	compressor Compressor
	stored     uint32
	records    uint32
	raw        uint32 // Indexed only
}

// layoutOf finds the layout by the first word of a file. It returns Plain for both old layouts; see parsePlain.
func layoutOf(head []byte) (Layout, bool) {
	if len(head) < magicBytes {
		return 0, false
	}
	switch binary.LittleEndian.Uint32(head) {
	case chunkMagic, footerMagic:
		return Indexed, true
	case plainMagic:
		return Plain, true
	}
	return 0, false
}

// parsePlain reads the header of an old layout at byte offset of the file. The fourth word distinguishes them. For Plain it is the stored size,
// which is at least 4, the length of one record. For Fluid it is the compressor, which is at most 2.
func parsePlain(b []byte, name string, offset int64) (header, Layout, error) {
	var words [plainHeaderBytes / 4]uint32
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	if words[0] != plainMagic {
		return header{}, 0, wrongMagic(name, offset, words[0], plainMagic)
	}
	h, layout := header{checksum: words[1], compressor: Compressor(words[2]), stored: words[3], records: words[4]}, Plain
	if words[3] <= uint32(Gzip) {
		h, layout = header{records: words[1], checksum: words[2], compressor: Compressor(words[3]), stored: words[4]}, Fluid
	}
	return h, layout, nil
}

// parseIndexed reads the part of an Indexed header after the magic.
func parseIndexed(b []byte) header {
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }
	return header{checksum: word(0), compressor: Compressor(word(1)), stored: word(2), records: word(3), raw: word(4)}
}

// appendIndexed is the inverse of parseIndexed.
func (h header) appendIndexed(dst []byte) []byte {
	return appendWords(dst, h.checksum, uint32(h.compressor), h.stored, h.records, h.raw)
}

func (h header) appendPlain(dst []byte) []byte {
	return appendWords(dst, plainMagic, h.checksum, uint32(h.compressor), h.stored, h.records)
}

func appendWords(dst []byte, words ...uint32) []byte {
	for _, word := range words {
		dst = binary.LittleEndian.AppendUint32(dst, word)
	}
	return dst
}

// indexedChecksum is the checksum of an Indexed chunk: of everything but the checksum itself.
func indexedChecksum(chunk []byte) uint32 {
	const end = magicBytes + 4
	return crc32.Update(crc32.ChecksumIEEE(chunk[:magicBytes]), crc32.IEEETable, chunk[end:])
}

// check compares the header of the chunk at byte offset with the limits and with the number of bytes after it.
func (h header) check(layout Layout, name string, offset, behind int64, limits Limits) error {
	if h.compressor > Gzip {
		return corrupt(name, offset, fmt.Sprintf("compressor %d", h.compressor), "0 (none), 1 (snappy) or 2 (gzip)")
	}
	if h.records == 0 || h.stored < lengthBytes {
		return corrupt(name, offset, fmt.Sprintf("a chunk of %d records in %d bytes", h.records, h.stored), "at least one record")
	}
	if int64(h.stored) > behind {
		return cut(name, offset+layout.headerBytes(), behind, int64(h.stored), "chunk")
	}
	if int64(h.stored) > int64(limits.StoredBytes) {
		return tooLarge(name, offset, fmt.Sprintf("a chunk of %d bytes", h.stored), fmt.Sprintf("at most %d", limits.StoredBytes))
	}
	least := int64(h.records) * lengthBytes
	limit := limits.maxRaw(int64(h.stored))
	if layout == Indexed {
		if least > int64(h.raw) || h.compressor == None && h.raw != h.stored {
			return corrupt(name, offset, fmt.Sprintf("%d records in %d bytes, stored in %d (%v)", h.records, h.raw, h.stored, h.compressor),
				"at least 4 bytes a record")
		}
		if int64(h.raw) > limit {
			return tooLarge(name, offset, fmt.Sprintf("a chunk of %d bytes that holds %d when decompressed", h.stored, h.raw),
				fmt.Sprintf("at most %d", limit))
		}
	}
	if h.compressor == None && least > int64(h.stored) {
		return corrupt(name, offset, fmt.Sprintf("%d records in %d bytes", h.records, h.stored), "at least 4 bytes a record")
	}
	if least > limit {
		return tooLarge(name, offset, fmt.Sprintf("%d records in a chunk", h.records), fmt.Sprintf("at most %d", limit/lengthBytes))
	}
	return nil
}

// ErrIncomplete is the cause of the error for an Indexed file that does not end with a footer: the file was cut, or its writer has not closed it
// yet.
var ErrIncomplete = errors.New("the file has no footer: it is cut short, or its writer has not closed it yet")

// Finished reports whether an Indexed file ends like one with a footer. It does not read the footer. known is false for other layouts, which do not
// show whether they are complete.
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

// readFooter fills the index of an Indexed file. It checks entries as they arrive, so a false footer costs no more than the bytes that are there.
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

// readEntry takes the entry at byte at of the file. Its chunk must begin at the end of the previous one.
func (x *Index) readEntry(b []byte, at, footer int64) error {
	offset := x.end()
	if got := binary.LittleEndian.Uint64(b); got != uint64(offset) {
		return corrupt(x.Name, at, fmt.Sprintf("a footer in which chunk %d begins at byte %d", len(x.Chunks), got), fmt.Sprint(offset))
	}
	if footer-offset < indexedHeaderBytes {
		return corrupt(x.Name, at, fmt.Sprintf("chunk %d at byte %d, which is in the footer", len(x.Chunks), offset), "fewer chunks")
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

// Limits bounds what a reader accepts. The reader checks them before it allocates. A zero field means its default. Everything that a Writer writes
// is within the defaults.
type Limits struct {
	StoredBytes int // payload of a chunk as stored; default 64 MiB
	RawBytes    int // payload of a chunk when decompressed; default 64 MiB
	RecordBytes int // one record; default 32 MiB
	Chunks      int // in a file; default 4 Mi, which is about 256 MiB of index
	Ratio       int // decompressed bytes per stored byte; by default only RawBytes bounds decompression
}

const (
	defaultChunkLimit  = 64 << 20
	defaultRecordLimit = 32 << 20
	defaultChunks      = 4 << 20
)

func (l Limits) withDefaults() Limits {
	if l.StoredBytes <= 0 {
		l.StoredBytes = defaultChunkLimit
	}
	if l.RawBytes <= 0 {
		l.RawBytes = defaultChunkLimit
	}
	if l.RecordBytes <= 0 {
		l.RecordBytes = defaultRecordLimit
	}
	if l.Chunks <= 0 {
		l.Chunks = defaultChunks
	}
	return l
}

// maxRaw is the largest decompressed size of a payload of stored bytes.
func (l Limits) maxRaw(stored int64) int64 {
	limit := int64(l.RawBytes)
	if l.Ratio > 0 {
		limit = min(limit, stored*int64(l.Ratio))
	}
	return limit
}

func cut(name string, offset, got, want int64, what string) error {
	return fault.E(fault.Corrupt, fault.At(place(name, offset)), fault.Cause(errCut), fault.Gotf("%d bytes of the %s", got, what),
		fault.Want(fmt.Sprint(want)))
}

var errCut = fmt.Errorf("cut short: %w", io.ErrUnexpectedEOF)

// place names a byte of a file.
func place(name string, offset int64) string { return fmt.Sprintf("%s: byte %d", name, offset) }

func corrupt(name string, offset int64, got, want string) error {
	return fault.E(fault.Corrupt, fault.At(place(name, offset)), fault.Got(got), fault.Want(want))
}

func tooLarge(name string, offset int64, got, want string) error {
	return fault.E(fault.TooLarge, fault.At(place(name, offset)), fault.Got(got), fault.Want(want))
}

func wrongMagic(name string, offset int64, got, want uint32) error {
	return corrupt(name, offset, fmt.Sprintf("magic number 0x%08x", got), fmt.Sprintf("0x%08x", want))
}
