package wire

import (
	"encoding/base64"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

// A trainer serves nobody, so it tells in its log what it waits for: that also reaches those who started it when the coordinator and etcd are gone.
// The line is for the listener, which takes it out.

// waitsMark begins what a line tells of waits.
const waitsMark = "edl-role-waits:"

// Bounds of what one role tells: so many waits, and so many bytes of each of their texts. All of it fits into a line of a log.
const (
	maxWaits    = 4
	maxWaitText = 300
)

// WaitsText returns what a role writes into a line of its log when it waits for what is given, which replaces what it has told before.
func WaitsText(waits []*job.Wait) string {
	m := &rpc.StatusResponse{}
	for _, w := range waits[:min(len(waits), maxWaits)] {
		said := &job.Wait{What: short(w.What), Since: w.Since, Until: w.Until, LastError: short(w.LastError)}
		for _, name := range w.By[:min(len(w.By), 1)] {
			said.By = []string{short(name)}
		}
		m.Waits = append(m.Waits, said)
	}
	b, err := proto.Marshal(m)
	if err != nil {
		b = nil // no text that short returns
	}
	return waitsMark + base64.RawURLEncoding.EncodeToString(b)
}

// WaitsOf returns what a line tells of waits, each without Who; false when it tells nothing of them.
func WaitsOf(line string) ([]*job.Wait, bool) {
	_, text, ok := strings.Cut(line, waitsMark)
	if !ok {
		return nil, false
	}
	text, _, _ = strings.Cut(text, " ")
	b, err := base64.RawURLEncoding.DecodeString(strings.Trim(text, "\"\n"))
	m := &rpc.StatusResponse{}
	if err != nil || proto.Unmarshal(b, m) != nil || len(m.Waits) > maxWaits {
		return nil, false
	}
	for _, w := range m.Waits {
		w.Who = ""
		if !w.Since.IsValid() || w.Until != nil && !w.Until.IsValid() || len(w.By) > 1 {
			return nil, false
		}
	}
	return m.Waits, true
}

// short cuts a text that is told.
func short(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxWaitText)], "?")
}
