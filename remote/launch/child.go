package launch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

// MaxSpec bounds an encoded job.RoleSpec in bytes.
const MaxSpec = 256 << 20

// stdin names the spec's place in errors.
const stdin = "role spec on standard input"

// encodeSpec returns what a child reads: the length as a little-endian uint32, and the RoleSpec.
func encodeSpec(spec *job.RoleSpec) ([]byte, error) {
	if n := proto.Size(spec); n > MaxSpec {
		return nil, tooLarge(nameOf(spec), int64(n))
	}
	message, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, 4), spec)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, nameOf(spec), err)
	}
	binary.LittleEndian.PutUint32(message, uint32(len(message)-4))
	return message, nil
}

// ChildSpec is a child's side of Processes: it reads the spec from r, which is its standard input. lost is closed when r ends, which it does when the
// parent is gone: the child must then end. Nobody else may read r; what follows the spec is skipped.
func ChildSpec(r io.Reader) (spec *job.RoleSpec, lost <-chan struct{}, err error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, nil, fault.E(fault.Corrupt, fault.At(stdin), fault.Want("a length of 4 bytes"), fault.Cause(err),
			fault.Hint("roles are started by edl itself, not by hand"))
	}
	size := int64(binary.LittleEndian.Uint32(head[:]))
	if size > MaxSpec {
		return nil, nil, tooLarge(stdin, size)
	}
	// The buffer grows with what arrives, not with what is announced.
	var b bytes.Buffer
	if n, err := io.CopyN(&b, r, size); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, nil, fault.E(fault.Corrupt, fault.At(stdin), fault.Gotf("%d bytes", n), fault.Wantf("%d bytes", size), fault.Cause(err))
	}
	spec = &job.RoleSpec{}
	if err := proto.Unmarshal(b.Bytes(), spec); err != nil {
		return nil, nil, fault.Wrap(fault.Corrupt, stdin, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.CopyN(io.Discard, r, math.MaxInt64) // any error means as much as the end
	}()
	return spec, ended, nil
}

func tooLarge(where string, n int64) error {
	return fault.E(fault.TooLarge, fault.At(where), fault.Gotf("%d bytes", n), fault.Wantf("at most %d", MaxSpec))
}
