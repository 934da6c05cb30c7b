package scripttest_test

import (
	"strings"
	"testing"

	"github.com/edl-go/edl/remote/internal/scripttest"
)

func TestRunDir(t *testing.T) {
	scripttest.RunDir(t, "testdata", func(t *testing.T) func(scripttest.Command) string {
		var said []string
		return func(c scripttest.Command) string {
			switch c.Name {
			case "say":
				said = append(said, strings.Join(c.Args, " "))
				return ""
			case "value":
				return c.Arg("of", "none")
			}
			return strings.Join(said, "\n")
		}
	})
}
