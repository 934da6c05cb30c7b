// Package tensorboard writes event files, which TensorBoard shows as curves of scalars over steps.
//
// A file is a sequence of TFRecords: the length of the data in 8 bytes, a checksum of these bytes in 4, the data, and its checksum in 4, all little-endian. A
// checksum is the CRC-32C, turned right by 15 bits, plus 0xa282ead8. The data is a protocol buffer Event: wall time (double, field 1), step (int64, 2), and the
// version of the file (string, 3), which the first record has, or a Summary (5) of values (1), each with a tag (string, 1) and a number (float, 2).
package tensorboard

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/crc32c"
	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of the messages.
const (
	eventTime, eventStep, eventVersion, eventSummary = 1, 2, 3, 5
	summaryValue                                     = 1
	valueTag, valueNumber                            = 1, 2
)

// version is what the first record says.
const version = "brain.Event:2"

// A Scalar is a number with the name of its curve. A slash in the name groups curves.
type Scalar struct {
	Tag   string
	Value float64 // rounded to float32; may be NaN or infinite
}

// A Writer writes one event file. It is for one goroutine. An error stays: each later call returns it.
type Writer struct {
	file  *os.File
	out   *bufio.Writer
	now   func() time.Time
	event []byte // reused
	value []byte
	err   error
}

// Create makes a new event file in dir, which is made if need be. TensorBoard finds it by its name.
func Create(dir string) (*Writer, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fault.File(fault.InvalidArgument, dir, err)
	}
	now := time.Now()
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	name := fmt.Sprintf("events.out.tfevents.%010d.%s.%d.%d", now.Unix(), filepath.Base(host), os.Getpid(), now.Nanosecond())
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, fault.File(fault.InvalidArgument, dir, err)
	}
	w := &Writer{file: f, out: bufio.NewWriter(f), now: time.Now}
	w.event = protowire.AppendTag(w.begin(), eventVersion, protowire.BytesType)
	w.event = protowire.AppendString(w.event, version)
	w.record()
	if err := w.Flush(); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return w, nil
}

// begin empties the event and writes its time.
func (w *Writer) begin() []byte {
	seconds := float64(w.now().UnixNano()) / 1e9
	return protowire.AppendFixed64(protowire.AppendTag(w.event[:0], eventTime, protowire.Fixed64Type), math.Float64bits(seconds))
}

// Write writes the values of a step.
func (w *Writer) Write(step uint64, values ...Scalar) error {
	if w.err != nil || len(values) == 0 {
		return w.err
	}
	w.event = protowire.AppendVarint(protowire.AppendTag(w.begin(), eventStep, protowire.VarintType), step)
	var summary []byte
	for _, v := range values {
		w.value = protowire.AppendString(protowire.AppendTag(w.value[:0], valueTag, protowire.BytesType), v.Tag)
		w.value = protowire.AppendFixed32(protowire.AppendTag(w.value, valueNumber, protowire.Fixed32Type), math.Float32bits(float32(v.Value)))
		summary = protowire.AppendBytes(protowire.AppendTag(summary, summaryValue, protowire.BytesType), w.value)
	}
	w.event = protowire.AppendBytes(protowire.AppendTag(w.event, eventSummary, protowire.BytesType), summary)
	w.record()
	return w.err
}

// record writes the event as one TFRecord.
func (w *Writer) record() {
	var head [12]byte
	binary.LittleEndian.PutUint64(head[:], uint64(len(w.event)))
	binary.LittleEndian.PutUint32(head[8:], masked(head[:8]))
	tail := binary.LittleEndian.AppendUint32(nil, masked(w.event))
	for _, part := range [][]byte{head[:], w.event, tail} {
		if w.err == nil {
			_, err := w.out.Write(part)
			w.keep(err)
		}
	}
}

// masked is the checksum of a TFRecord.
func masked(b []byte) uint32 { return bits.RotateLeft32(crc32c.Checksum(b), -15) + 0xa282ead8 }

// keep keeps the first error.
func (w *Writer) keep(err error) {
	if err != nil && w.err == nil {
		w.err = fault.File(fault.Unavailable, w.file.Name(), err)
	}
}

// Flush makes what was written visible to TensorBoard.
func (w *Writer) Flush() error {
	if w.err == nil {
		w.keep(w.out.Flush())
	}
	return w.err
}

// Close ends the file.
func (w *Writer) Close() error {
	_ = w.Flush()
	w.keep(w.file.Close())
	return w.err
}
