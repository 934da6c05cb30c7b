package program_test

import (
	"testing"

	"github.com/edl-go/edl/program"
)

func TestHashIgnoresOnlyTheLinesOfUserCode(t *testing.T) {
	hash := func(p *program.Program) program.Hash {
		h, err := p.Hash()
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	p, moved, changed := regression(t), regression(t), regression(t)
	moved.Global().Ops[0].SetLine("other/place.go:99")
	changed.Startup.Global().Ops[0].SetAttr("value", float32(0.25))
	if hash(p) != hash(moved) {
		t.Error("moving user code made another program")
	}
	if hash(p) == hash(changed) {
		t.Error("another initial value made no other program")
	}
	if h := hash(p); len(h.String()) != 64 || h.String()[:12] != h.Short() {
		t.Errorf("hash %s, short %s", h, h.Short())
	}
}
