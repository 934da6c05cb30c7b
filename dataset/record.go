package dataset

import (
	"encoding/binary"
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

const (
	countBytes     = 4  // number of tensors, at the start of a record
	minStreamBytes = 22 // of the stream of a tensor without elements
)

// A RecordWriter takes records. recordio.Writer and ShardWriter are RecordWriters. It does not keep the bytes.
type RecordWriter interface {
	Write(record []byte) error // appends one record
}

// AppendRecord appends the training record of a sample to dst and returns the result.
func AppendRecord(dst []byte, tensors ...*tensor.Tensor) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(tensors)))
	for _, t := range tensors {
		dst = tensor.AppendStream(dst, t)
	}
	return dst
}

// ParseRecord parses a training record. The streams refer to record. They reuse the memory of the given streams, so passing the last result back
// makes reading records of one shape free of allocations.
func ParseRecord(record []byte, streams []tensor.Stream) ([]tensor.Stream, error) {
	if len(record) < countBytes {
		return nil, fault.E(fault.Corrupt, fault.Gotf("a record of %d bytes", len(record)), fault.Want("a tensor count of 4 bytes"))
	}
	count, rest := binary.LittleEndian.Uint32(record), record[countBytes:]
	if uint64(count)*minStreamBytes > uint64(len(rest)) {
		return nil, fault.E(fault.Corrupt, fault.Gotf("%d tensors in a record of %d bytes", count, len(record)),
			fault.Want("at least 22 bytes a tensor"))
	}
	if cap(streams) < int(count) {
		streams = append(streams[:cap(streams)], make([]tensor.Stream, int(count)-cap(streams))...)
	}
	streams = streams[:count]
	for i := range streams {
		var err error
		if rest, err = streams[i].Parse(rest, tensor.Limits{}); err != nil {
			return nil, fault.Wrap(fault.KindOf(err), fmt.Sprintf("tensor %d of the record", i), err)
		}
	}
	if len(rest) > 0 {
		return nil, fault.E(fault.Corrupt, fault.Gotf("%d bytes behind the last of %d tensors", len(rest), count), fault.Want("none"))
	}
	return streams, nil
}

// DecodeRecord returns copies of the tensors of a training record.
func DecodeRecord(record []byte) ([]*tensor.Tensor, error) {
	streams, err := ParseRecord(record, nil)
	if err != nil {
		return nil, err
	}
	tensors := make([]*tensor.Tensor, len(streams))
	for i := range streams {
		if tensors[i], err = streams[i].Tensor(); err != nil {
			return nil, err
		}
	}
	return tensors, nil
}

// place names the record in errors.
func (r Record) place() string { return fmt.Sprintf("%s: record %d", r.File, r.Number) }

// A Record is the bytes of one record and their source.
type Record struct {
	Number int64  // in the dataset
	File   string // path
	Bytes  []byte // valid until the iterator is asked for the next record
}
