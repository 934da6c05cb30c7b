package wire_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/thisbuild"
	"github.com/edl-go/edl/remote/wire"
)

// A process of another protocol is refused in one line, which names both builds and says what to do. One of another build that speaks the same is not.
func TestSameProtocol(t *testing.T) {
	if err := wire.SameProtocol("node left", wire.Protocol, "v9.9.9", "do something"); err != nil {
		t.Error(err)
	}
	for protocol, build := range map[uint32]string{wire.Protocol + 1: "v9.9.9", 0: ""} {
		err := wire.SameProtocol("node left", protocol, build, "do something")
		if !errors.Is(err, fault.Unsupported) || strings.Contains(err.Error(), "\n") {
			t.Fatalf("protocol %d: %v", protocol, err)
		}
		if build == "" {
			build = "an older one"
		}
		for _, want := range []string{"node left", build, thisbuild.Name(), "do something"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	}
}
