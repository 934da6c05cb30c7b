package launch

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/wire"
	"google.golang.org/protobuf/proto"
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

// reportMark begins the line in which a child tells its launcher how it ended; an exit code alone says too little to decide whether to try again.
const reportMark = "edl-role-failure:"

// maxReported bounds the text of a failure that does not fit into a line as it is.
const maxReported = 2 << 10

// ReportFailure writes the error of a role to its log, where the launcher takes it out again: it becomes the error of Handle.Wait, with its kind and
// fields. A child calls it last, and nothing is written when err is nil.
func ReportFailure(log io.Writer, err error) {
	if err == nil {
		return
	}
	line := encodeReport(wire.FailureOf(err))
	if len(line) > maxLine {
		text := err.Error()
		line = encodeReport(&job.Failure{Kind: int32(fault.KindOf(err)), Message: strings.ToValidUTF8(text[:min(len(text), maxReported)], "?")})
	}
	_, _ = fmt.Fprintf(log, "%s\n", line) // a parent that does not listen is gone
}

func encodeReport(f *job.Failure) string {
	b, err := proto.Marshal(f)
	if err != nil {
		return "" // no failure that FailureOf makes: its texts are valid
	}
	return reportMark + base64.StdEncoding.EncodeToString(b)
}

// decodeReport returns the failure that a line holds, nil when it is any other line.
func decodeReport(line string) *job.Failure {
	text, ok := strings.CutPrefix(line, reportMark)
	if !ok {
		return nil
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	f := &job.Failure{}
	if proto.Unmarshal(b, f) != nil {
		return nil
	}
	return f
}

// named says whose error err is, without hiding what it tells.
func named(name string, kind fault.Kind, err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) || f.Error() != err.Error() {
		return fault.E(kind, fault.At(name), fault.Cause(err))
	}
	c := *f
	if c.Where = name; f.Where != "" && f.Where != name {
		c.Where += ": " + f.Where
	}
	return &c
}
