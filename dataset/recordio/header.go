package recordio

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A header is what stands before a payload, whatever the order of its words.
type header struct {
	checksum   uint32
	compressor Compressor
	stored     uint32
	records    uint32
	raw        uint32 // Indexed only
}

// layoutOf tells from the first word of a file whether it is Indexed. Of the old layouts it says Plain; see parsePlain.
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

// parsePlain reads the header of an old layout at byte offset of the file. The fourth word tells the two apart: for Plain it is
// the stored size, which is at least that of one record's length, 4; for Fluid it is the compressor, which is at most 2.
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

// parseIndexed reads what stands behind the magic of a header of Indexed.
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

// indexedChecksum is the checksum of a chunk of Indexed, magic and payload included: of everything but the checksum itself.
func indexedChecksum(chunk []byte) uint32 {
	const end = magicBytes + 4
	return crc32.Update(crc32.ChecksumIEEE(chunk[:magicBytes]), crc32.IEEETable, chunk[end:])
}

// check holds the header of the chunk at byte offset to the limits and to the bytes that the file has behind it.
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
