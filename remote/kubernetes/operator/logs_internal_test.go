package operator

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

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
