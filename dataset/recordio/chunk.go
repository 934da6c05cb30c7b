package recordio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/edl-go/edl/fault"
)

// A chunkLoader reads chunks of one file, one at a time, into memory that it keeps.
type chunkLoader struct {
	index  *Index
	file   io.ReaderAt
	stored []byte
	decompressor
}

// load returns the raw payload of a chunk, every record of which is sound. It is valid until the next load.
func (l *chunkLoader) load(c Chunk) ([]byte, error) {
	if int64(cap(l.stored)) < c.StoredBytes {
		l.stored = make([]byte, c.StoredBytes)
	}
	l.stored = l.stored[:c.StoredBytes]
	if err := readFull(l.index.Name, l.file, l.stored, c.Offset+headerBytes); err != nil {
		return nil, err
	}
	if sum := crc32.ChecksumIEEE(l.stored); sum != c.checksum {
		return nil, corrupt(l.index.Name, c.Offset, fmt.Sprintf("a chunk with checksum 0x%08x", sum), fmt.Sprintf("0x%08x", c.checksum))
	}
	limit := l.index.limits.maxRaw(c.StoredBytes)
	raw, err := l.decompress(c.Compressor, l.stored, limit)
	if errors.Is(err, errOverLimit) {
		return nil, tooLarge(l.index.Name, c.Offset,
			fmt.Sprintf("a chunk of %d bytes that holds more when decompressed", c.StoredBytes), fmt.Sprintf("at most %d", limit))
	}
	if err != nil {
		return nil, &fault.Fault{Kind: fault.Corrupt, Where: place(l.index.Name, c.Offset), Got: "a damaged " + c.Compressor.String() + " payload", Err: err}
	}
	return raw, l.check(c, raw)
}

// check walks the records of a payload: they must be as many as the header says and fill it exactly.
func (l *chunkLoader) check(c Chunk, raw []byte) error {
	at := 0
	for i := range c.Records {
		left := len(raw) - at
		if left < lengthBytes {
			return corrupt(l.index.Name, c.Offset, fmt.Sprintf("%d records in a chunk", i), fmt.Sprint(c.Records))
		}
		length := binary.LittleEndian.Uint32(raw[at:])
		if int64(length) > int64(left-lengthBytes) {
			return corrupt(l.index.Name, c.Offset, fmt.Sprintf("record %d of the chunk with %d bytes", i, length), fmt.Sprintf("at most the %d that are left", left-lengthBytes))
		}
		if int64(length) > int64(l.index.limits.RecordBytes) {
			return tooLarge(l.index.Name, c.Offset, fmt.Sprintf("record %d of the chunk with %d bytes", i, length), fmt.Sprintf("at most %d", l.index.limits.RecordBytes))
		}
		at += lengthBytes + int(length)
	}
	if at != len(raw) {
		return corrupt(l.index.Name, c.Offset, fmt.Sprintf("%d bytes behind the last of %d records", len(raw)-at, c.Records), "none")
	}
	return nil
}

// cutRecord splits the first record off a checked payload.
func cutRecord(raw []byte) (record, rest []byte) {
	end := lengthBytes + int(binary.LittleEndian.Uint32(raw))
	return raw[lengthBytes:end:end], raw[end:]
}
