package launch

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/wire"
)

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
