package edlcmd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/wire"
)

func TestRangeNames(t *testing.T) {
	for want, r := range map[string]*rpc.RecordRange{"3": {From: 3, To: 4}, "3-4": {From: 3, To: 5}} {
		if got := rangeName(r); got != want {
			t.Errorf("%v is %s, want %s", r, got, want)
		}
	}
}

// A snapshot that is cut at any byte, or hostile, is refused or shown, and nothing in it reaches the terminal as it is.
func TestSnapshotsFromOutside(t *testing.T) {
	snapshot := func(m *state.Snapshot) []byte {
		b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(binary.LittleEndian.AppendUint32(nil, queueMagic), m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	path := filepath.Join(t.TempDir(), "snapshot")
	show := func(b []byte) (string, error) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err := showQueues(&console{out: &out}, path, "table")
		return out.String(), err
	}
	whole := snapshot(&state.Snapshot{Job: "x", Entries: map[string][]byte{"data/train/head": {8, 1}}})
	for n := 4; n < len(whole); n++ {
		if n == 7 {
			continue // after the name of the job: a snapshot without entries
		}
		if _, err := show(whole[:n]); !errors.Is(err, fault.Corrupt) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
	evil := "\x1b[2J"
	text, err := show(snapshot(&state.Snapshot{Job: evil,
		Entries: map[string][]byte{evil: []byte(evil), "job/left/0": []byte(evil), "data/a/head": []byte(evil)}}))
	if err != nil || strings.Contains(text, "\x1b") {
		t.Errorf("%q, %v", text, err)
	}
	many := snapshot(&state.Snapshot{Job: "x"})
	entry := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), nil)
	if _, err := show(append(many, bytes.Repeat(entry, maxEntries)...)); !errors.Is(err, fault.TooLarge) {
		t.Errorf("too many entries: %v", err)
	}
}

// A job that saves its state says which checkpoint is the last, and why there is none since.
func TestCheckpointOfAJob(t *testing.T) {
	for want, status := range map[string]*job.CheckpointStatus{
		"none yet in ckpt":                   {Store: "ckpt"},
		"after 100 steps, 12 bytes, in ckpt": {Store: "ckpt", Name: "x", Steps: 100, Bytes: 12},
		"after 100 steps, 12 bytes, in ckpt; fails since 1970-01-01T00:00:05Z: disk full": {Store: "ckpt", Name: "x", Steps: 100, Bytes: 12, FailingSinceMs: 5000,
			Failure: wire.FailureOf(fault.New(fault.Unavailable, "disk full"))},
		"none in ckpt; fails since 1970-01-01T00:00:05Z: pserver 1: unavailable: got no room, want 2 GB; free some": {Store: "ckpt", FailingSinceMs: 5000,
			Failure: wire.FailureOf(fault.E(fault.Unavailable, fault.At("pserver 1"), fault.Got("no room"), fault.Want("2 GB"), fault.Hint("free some")))},
		"none in ckpt; fails since 1970-01-01T00:00:05Z": {Store: "ckpt", FailingSinceMs: 5000},
	} {
		if got := checkpointText(status, 0); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := checkpointText(&job.CheckpointStatus{Store: "ckpt"}, 7); got != "none since the job began after 7 steps, in ckpt" {
		t.Error(got)
	}
}
