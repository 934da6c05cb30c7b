package bytemark_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/edl-go/edl/internal/bytemark"
)

// One mark at the beginning goes. What is shorter, or only begins as the mark does, stays.
func TestSkip(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a": "a", "\ufeff": "", "\ufeffa\ufeff": "a\ufeff", "\ufeff\ufeffa": "\ufeffa", "\xef\xbba": "\xef\xbba", "\xef": "\xef",
	} {
		got, err := io.ReadAll(bytemark.Skip(iotest.OneByteReader(strings.NewReader(text))))
		if err != nil || string(got) != want {
			t.Errorf("of %q there is %q, %v", text, got, err)
		}
	}
	broken := errors.New("broken")
	if _, err := io.ReadAll(bytemark.Skip(iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Error(err)
	}
}
