package operator

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
)

// A log that is kept has all its lines, with their starts. Of one that is too large it has the last lines, and says so.
func TestKeptLog(t *testing.T) {
	text := func(packed []byte) string {
		var b strings.Builder
		if err := unpackLog(packed, func(role string, start int, line string) error {
			fmt.Fprintf(&b, "%s/%d %s\n", role, start, line)
			return nil
		}); err != nil {
			t.Error(err)
		}
		return b.String()
	}
	few := []string{"trainer-0/0 begins\n", "trainer-0/1 \n", "pserver-1/0 a b  c\n"}
	packed, cut, err := packLog(few)
	if got := text(packed); err != nil || cut || got != strings.Join(few, "") {
		t.Errorf("cut %t, %v:\n%s", cut, err, got)
	}
	var many []string
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 3 * maxLog / 64 {
		many = append(many, fmt.Sprintf("trainer-0/0 line %d %016x%016x%016x%016x\n", i, random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64()))
	}
	packed, cut, err = packLog(many)
	got := text(packed)
	if err != nil || !cut || len(packed) > maxLog || len(packed) < maxLog/3 || !strings.HasSuffix(strings.Join(many, ""), got) {
		t.Errorf("of %d lines are kept %d in %d bytes, cut %t, %v", len(many), strings.Count(got, "\n"), len(packed), cut, err)
	}
	for _, wrong := range [][]byte{nil, []byte("no gzip"), packed[:len(packed)/2]} {
		if err := unpackLog(wrong, func(string, int, string) error { return nil }); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%d wrong bytes: %v", len(wrong), err)
		}
	}
}

// The log of a job is kept when roles have ended since, at once at its end, and again where that has failed: the API server may be away just then.
func TestWhenALogIsKept(t *testing.T) {
	began := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var k keptLog
	for i, c := range []struct {
		after time.Duration
		job   Job
		due   bool
		err   error
	}{
		{0, Job{}, false, nil},
		{0, Job{Gone: 1}, true, nil},
		{5 * time.Second, Job{Gone: 2}, false, nil},
		{10 * time.Second, Job{Gone: 2}, true, errors.New("away")},
		{12 * time.Second, Job{Gone: 2}, false, nil},
		{20 * time.Second, Job{Gone: 2}, true, nil},
		{22 * time.Second, Job{Gone: 2, Suspended: true}, false, nil},
		{24 * time.Second, Job{Gone: 6, Suspended: true}, true, errors.New("away")},
		{26 * time.Second, Job{Gone: 6, Suspended: true}, false, nil},
		{34 * time.Second, Job{Gone: 6, Suspended: true}, true, nil},
		{35 * time.Second, Job{Gone: 9, Ended: true}, true, errors.New("away")},
		{35 * time.Second, Job{Gone: 9, Ended: true}, true, nil},
		{36 * time.Second, Job{Gone: 9, Ended: true}, false, nil},
	} {
		now := began.Add(c.after)
		if due := k.due(&c.job, now); due != c.due {
			t.Errorf("look %d, %v after the begin: due %t, want %t", i, c.after, due, c.due)
		}
		if c.due {
			k = k.next(&c.job, now, c.err)
		}
	}
}
