package wire

import (
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
)

// SendPieces cuts an encoded message into pieces of ChunkBytes and sends each. There is always at least one. What cannot be encoded, because a text
// in it is not one, is fault.InvalidArgument, and nothing is sent.
func SendPieces(m proto.Message, send func(piece []byte) error) error {
	b, err := proto.Marshal(m)
	if err != nil {
		return fault.Wrap(fault.InvalidArgument, "message", err)
	}
	for {
		n := min(len(b), ChunkBytes)
		if err := send(b[:n:n]); err != nil {
			return err
		}
		if b = b[n:]; len(b) == 0 {
			return nil
		}
	}
}

// ReceivePieces joins pieces until io.EOF and decodes them into m. More than limit bytes in all are refused as they arrive, and so is a stream
// without a piece, which no sender makes.
func ReceivePieces(m proto.Message, limit int, recv func() ([]byte, error)) error {
	var b []byte
	for n := 0; ; n++ {
		piece, err := recv()
		if errors.Is(err, io.EOF) && n > 0 {
			break
		}
		if errors.Is(err, io.EOF) {
			return fault.E(fault.Corrupt, fault.Got("a stream without a message"))
		}
		if err != nil {
			return err
		}
		if len(piece) > limit-len(b) {
			return fault.E(fault.TooLarge, fault.Got("a message of more than "+fmt.Sprint(limit)+" bytes"))
		}
		b = append(b, piece...)
	}
	return fault.Wrap(fault.Corrupt, "message", proto.Unmarshal(b, m))
}
