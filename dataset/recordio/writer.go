package recordio

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"

	"github.com/edl-go/edl/fault"
)

// Options says how a Writer forms chunks. The zero value is usable.
type Options struct {
	// ChunkBytes is the largest size of a chunk before compression, at most 32 MiB. Only a single record may exceed it. The default is 1 MiB: large
	// enough to compress and to read at full speed, small enough to divide a dataset evenly among trainers.
	ChunkBytes int
	// ChunkRecords is the largest number of records of a chunk. By default there is no such bound.
	ChunkRecords int
	Compressor   Compressor
	Layout       Layout // Indexed or Plain
}

// A Writer writes one RecordIO file. It is not safe for concurrent use.
type Writer struct {
	w       io.Writer
	options Options
	raw     []byte // records of the open chunk
	records int
	stored  bytes.Buffer
	written Index // the content of the footer
	err     error // sticky
}

// NewWriter returns a writer to w.
func NewWriter(w io.Writer, options Options) (*Writer, error) {
	if options.ChunkBytes == 0 {
		options.ChunkBytes = 1 << 20
	}
	if options.ChunkBytes < 0 || options.ChunkBytes > defaultRecordLimit ||
		options.ChunkRecords < 0 || options.Compressor > Gzip || (options.Layout != Indexed && options.Layout != Plain) {
		return nil, fault.E(fault.InvalidArgument, fault.Gotf("recordio options %+v", options),
			fault.Wantf("chunk bytes in [0, %d], chunk records of 0 or more, compressor none, snappy or gzip, layout indexed or plain", defaultRecordLimit))
	}
	return &Writer{w: w, options: options, written: Index{Layout: options.Layout, limits: Limits{}.withDefaults()}}, nil
}

// Write appends a record of at most 32 MiB. It does not keep the bytes.
func (w *Writer) Write(record []byte) error {
	if w.err != nil {
		return w.err
	}
	if len(record) > defaultRecordLimit {
		return fault.E(fault.TooLarge, fault.Gotf("a record of %d bytes", len(record)), fault.Wantf("at most %d", defaultRecordLimit))
	}
	full := w.options.ChunkRecords > 0 && w.records == w.options.ChunkRecords
	if full || len(w.raw)+lengthBytes+len(record) > w.options.ChunkBytes {
		if err := w.Flush(); err != nil {
			return err
		}
	}
	w.raw = binary.LittleEndian.AppendUint32(w.raw, uint32(len(record)))
	w.raw = append(w.raw, record...)
	w.records++
	return nil
}

// Flush ends the open chunk, if it holds a record, and writes it.
func (w *Writer) Flush() error {
	if w.err != nil || w.records == 0 {
		return w.err
	}
	w.err = w.writeChunk()
	w.raw, w.records = w.raw[:0], 0
	return w.err
}

func (w *Writer) writeChunk() error {
	headerBytes := w.options.Layout.headerBytes()
	w.stored.Reset()
	w.stored.Write(make([]byte, headerBytes))
	if err := w.options.Compressor.compress(&w.stored, w.raw); err != nil {
		return fault.Wrap(fault.Internal, "recordio", err)
	}
	chunk := w.stored.Bytes()
	h := header{compressor: w.options.Compressor, stored: uint32(int64(len(chunk)) - headerBytes), records: uint32(w.records)}
	if w.options.Layout == Plain {
		h.checksum = crc32.ChecksumIEEE(chunk[headerBytes:])
		h.appendPlain(chunk[:0])
	} else {
		h.raw = uint32(len(w.raw))
		h.appendIndexed(appendWords(chunk[:0], chunkMagic))
		h.checksum = indexedChecksum(chunk)
		h.appendIndexed(chunk[:magicBytes])
		if err := w.written.add(w.written.end(), h, int64(h.stored)); err != nil {
			return err
		}
	}
	return w.put(chunk)
}

func (w *Writer) put(b []byte) error {
	_, err := w.w.Write(b)
	return fault.Wrap(fault.Unavailable, "recordio", err)
}

// Close writes the open chunk and the footer. It does not close the underlying writer. Later writes fail.
func (w *Writer) Close() error {
	if err := w.Flush(); err != nil {
		return err
	}
	if w.options.Layout == Indexed {
		if w.err = w.put(appendFooter(nil, w.written.Chunks)); w.err != nil {
			return w.err
		}
	}
	w.err = fault.New(fault.InvalidArgument, "recordio: the writer is closed")
	return nil
}
