package recordio

import (
	"encoding/binary"
	"fmt"
)

const (
	magic       = 0x01020304
	headerBytes = 20
	lengthBytes = 4 // in front of every record
)

// A header is what stands before a payload, whatever the order of its words.
type header struct {
	checksum   uint32
	compressor Compressor
	stored     uint32
	records    uint32
}

// parseHeader reads the header at byte offset of the file. The fourth word tells the layouts apart: for Go it is
// the stored size, which is at least that of one record's length, 4; for C++ it is the compressor, which is at most 2.
func parseHeader(b []byte, name string, offset int64) (header, error) {
	var words [headerBytes / 4]uint32
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	if words[0] != magic {
		return header{}, corrupt(name, offset, fmt.Sprintf("magic number 0x%08x", words[0]), fmt.Sprintf("0x%08x, as a record file begins", magic))
	}
	h := header{checksum: words[1], compressor: Compressor(words[2]), stored: words[3], records: words[4]}
	if words[3] <= uint32(Gzip) {
		h = header{records: words[1], checksum: words[2], compressor: Compressor(words[3]), stored: words[4]}
	}
	if h.compressor > Gzip {
		return header{}, corrupt(name, offset, fmt.Sprintf("compressor %d", h.compressor), "0 (none), 1 (snappy) or 2 (gzip)")
	}
	if h.records == 0 || h.stored < lengthBytes {
		return header{}, corrupt(name, offset, fmt.Sprintf("a chunk of %d records in %d bytes", h.records, h.stored), "at least one record")
	}
	return h, nil
}

// check holds the header of the chunk at byte offset to the limits and to the bytes that the file has behind it.
func (h header) check(name string, offset, behind int64, limits Limits) error {
	if int64(h.stored) > behind {
		return cut(name, offset+headerBytes, behind, int64(h.stored), "chunk")
	}
	if int64(h.stored) > int64(limits.StoredBytes) {
		return tooLarge(name, offset, fmt.Sprintf("a chunk of %d bytes", h.stored), fmt.Sprintf("at most %d", limits.StoredBytes))
	}
	least := int64(h.records) * lengthBytes
	if h.compressor == None && least > int64(h.stored) {
		return corrupt(name, offset, fmt.Sprintf("%d records in %d bytes", h.records, h.stored), "at least 4 bytes a record")
	}
	if limit := limits.maxRaw(int64(h.stored)); least > limit {
		return tooLarge(name, offset, fmt.Sprintf("%d records in a chunk", h.records), fmt.Sprintf("at most %d", limit/lengthBytes))
	}
	return nil
}

// append writes the header in the Go layout.
func (h header) append(dst []byte) []byte {
	for _, word := range [...]uint32{magic, h.checksum, uint32(h.compressor), h.stored, h.records} {
		dst = binary.LittleEndian.AppendUint32(dst, word)
	}
	return dst
}
