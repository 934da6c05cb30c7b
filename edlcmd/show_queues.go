package edlcmd

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/wire"
)

// queueMagic begins a snapshot of task queues; a state.Snapshot follows.
const queueMagic = 0x51444c45 // "ELDQ" read as a little-endian number

// maxSnapshot bounds a snapshot in bytes. No job writes more.
const maxSnapshot = wire.MaxDetails

// maxEntries bounds the entries of a snapshot: a dataset has one for each of its files.
const maxEntries = 1 << 22

// snapshotTime bounds how long a coordinator may take to tell all its entries.
const snapshotTime = time.Minute

// takeSnapshot writes what the coordinator of a job has made durable.
func takeSnapshot(ctx context.Context, c *console, client *remote.Client, name, path string) error {
	ctx, cancel := context.WithTimeout(ctx, snapshotTime)
	defer cancel()
	entries, err := client.Entries(ctx, name)
	if err != nil {
		return err
	}
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(binary.LittleEndian.AppendUint32(nil, queueMagic),
		&state.Snapshot{Job: name, Entries: entries})
	if err != nil {
		return fault.Wrap(fault.Internal, path, err)
	}
	if err := os.WriteFile(path, b, 0o666); err != nil {
		return fileFault(path, err)
	}
	_, err = fmt.Fprintf(c.out, "%d entries in %s\n", len(entries), path)
	return err
}

// showQueues shows the entries of a snapshot.
func showQueues(c *console, path, output string) error {
	f, size, err := openRegular(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if size > maxSnapshot {
		return fault.E(fault.TooLarge, fault.At(path), fault.Got(humanBytes(size)), fault.Want("at most "+humanBytes(maxSnapshot)))
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return fileFault(path, err)
	}
	snapshot, err := decodeSnapshot(path, b[min(4, len(b)):])
	if err != nil {
		return err
	}
	described := map[string]string{}
	for key, value := range snapshot.Entries {
		described[printable(key)] = describeEntry(key, value)
	}
	if output == "json" {
		return writeJSON(c.out, struct {
			Job     string            `json:"job"`
			Entries map[string]string `json:"entries"`
		}{printable(snapshot.Job), described})
	}
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "job\t%s\n", printable(snapshot.Job))
	for _, key := range slices.Sorted(maps.Keys(described)) {
		fmt.Fprintf(t, "%s\t%s\n", key, described[key])
	}
	return t.Flush()
}

// decodeSnapshot refuses what would cost much more memory than it has bytes, and what is cut.
func decodeSnapshot(path string, b []byte) (*state.Snapshot, error) {
	entries := 0
	for rest := b; len(rest) > 0; {
		_, _, n := protowire.ConsumeField(rest)
		if n < 0 {
			return nil, fault.E(fault.Corrupt, fault.At(path),
				fault.Gotf("a snapshot of task queues that is cut or damaged at byte %d", 4+len(b)-len(rest)))
		}
		if entries++; entries > maxEntries {
			return nil, fault.E(fault.TooLarge, fault.At(path), fault.Gotf("a snapshot of more than %d entries", maxEntries))
		}
		rest = rest[n:]
	}
	snapshot := &state.Snapshot{}
	if err := proto.Unmarshal(b, snapshot); err != nil {
		return nil, fault.Wrap(fault.Corrupt, path, err)
	}
	if snapshot.Job == "" {
		return nil, fault.E(fault.Corrupt, fault.At(path), fault.Got("a snapshot of task queues without the name of its job"))
	}
	return snapshot, nil
}

// printable returns s as it is, or quoted if it has control characters.
func printable(s string) string {
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return fault.Quote(s)
		}
	}
	return s
}

// describeEntry says what an entry holds: one of a dataset, else one of the job.
func describeEntry(key string, value []byte) string {
	for at := range key {
		if key[at] != '/' {
			continue
		}
		if text, err := queue.Describe(key[at+1:], value); err == nil {
			return oneLine(text)
		}
	}
	for prefix, m := range map[string]proto.Message{"job/generation": &state.Generation{}, "job/settled": &state.Settled{},
		"job/left/": &state.Left{}, "job/saver": &state.Saver{}} {
		if strings.HasPrefix(key, prefix) && proto.Unmarshal(value, m) == nil {
			return oneLine(fmt.Sprint(m))
		}
	}
	return fmt.Sprintf("%d bytes", len(value))
}
