package recordio

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"testing"
)

// The same in the layout of this package: a chunk, and a footer of one entry.
const goldenIndexed = "45444c52 c98a88be 00000000 0b000000 02000000 0b000000 01000000 61 02000000 6263" +
	"45444c46 02000000 0000000000000000 c98a88be 00000000 0b000000 02000000 0b000000 0200000000000000 01000000 8a73b41b 45444c494e444558"

// A file of no records.
const goldenEmpty = "45444c46 02000000 0000000000000000 00000000 bbf4616e 45444c494e444558"

// The file that the Go library of PaddlePaddle writes for the records "a" and "bc" without compression.
const golden = "04030201 b1b17049 00000000 0b000000 02000000 01000000 61 02000000 6263"

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t testing.TB, options Options, records ...string) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := NewWriter(&file, options)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err := w.Write([]byte(r)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// readAll reads every record of a file in memory.
func readAll(b []byte, limits Limits) ([]string, error) {
	index, err := LoadIndex("file", bytes.NewReader(b), int64(len(b)), limits)
	if err != nil {
		return nil, err
	}
	return readRange(b, index, 0, index.NumRecords())
}

func readRange(b []byte, index *Index, first, count int64) (records []string, err error) {
	r, err := NewRangeReader(bytes.NewReader(b), index, first, count)
	if err != nil {
		return nil, err
	}
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return records, nil
		}
		if err != nil {
			return records, err
		}
		records = append(records, string(record))
	}
}

// cplusplus rewrites the headers of a file in the order of Fluid's C++ writer.
func cplusplus(b []byte) []byte {
	b = bytes.Clone(b)
	for at := 0; at < len(b); {
		crcCompressorStored, records := b[at+4:at+16], b[at+16:at+20]
		stored := binary.LittleEndian.Uint32(crcCompressorStored[8:])
		copy(b[at+4:], append(bytes.Clone(records), crcCompressorStored...))
		at += plainHeaderBytes + int(stored)
	}
	return b
}

// chunkOf makes one chunk with a true checksum around any payload.
func chunkOf(c Compressor, records uint32, payload string) []byte {
	h := header{checksum: crc32.ChecksumIEEE([]byte(payload)), compressor: c, stored: uint32(len(payload)), records: records}
	return append(h.appendPlain(nil), payload...)
}

// indexedOf makes a file with true checksums of one chunk around any payload, whose header claims raw bytes.
func indexedOf(c Compressor, records, raw uint32, payload string) []byte {
	h := header{compressor: c, stored: uint32(len(payload)), records: records, raw: raw}
	chunk := append(h.appendIndexed(appendWords(nil, chunkMagic)), payload...)
	h.checksum = indexedChecksum(chunk)
	h.appendIndexed(chunk[:magicBytes])
	return appendFooter(chunk, []Chunk{{Records: int64(records), StoredBytes: int64(len(payload)), RawBytes: int64(raw), Compressor: c,
		checksum: h.checksum}})
}

func compressed(t testing.TB, c Compressor, raw string) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.compress(&b, []byte(raw)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
