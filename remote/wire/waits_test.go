package wire_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/wire"
)

// What a role tells of its waits comes through its log, however long its texts are and however much it waits for; other lines tell nothing.
func TestWaitsInALog(t *testing.T) {
	long := strings.Repeat("é\xff", 5000)
	var waits []*job.Wait
	for range 10 {
		waits = append(waits, &job.Wait{Who: "me", What: long, By: []string{"pserver 1", long}, Since: timestamppb.New(time.Unix(7, 0)), LastError: long})
	}
	for n, want := range map[int]int{0: 0, 1: 1, 10: 4} {
		var line bytes.Buffer
		slog.New(slog.NewTextHandler(&line, nil)).Info(wire.WaitsText(waits[:n]), "role", "trainer-0")
		got, ok := wire.WaitsOf(line.String())
		if !ok || len(got) != want || line.Len() > 8<<10 {
			t.Fatalf("%d waits become %d, %v, in %d bytes", n, len(got), ok, line.Len())
		}
		for _, w := range got {
			if w.Who != "" || len(w.By) != 1 || w.By[0] != "pserver 1" || w.Since.Seconds != 7 || !strings.HasPrefix(w.What, "é") || len(w.LastError) > 1000 {
				t.Errorf("%v", w)
			}
		}
	}
	whole := wire.WaitsText(waits[:1])
	for _, line := range []string{"", "level=INFO msg=other", "edl-role-waits:???", whole[:40], "edl-role-waits:" + strings.Repeat("A", 8000)} {
		if got, ok := wire.WaitsOf(line); ok {
			t.Errorf("%.60q tells %v", line, got)
		}
	}
}
