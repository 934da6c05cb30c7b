package remote_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// lawCases is how many random cases a property is tested with; -rapid.checks=N asks for more.
const lawCases = "25"

func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", lawCases); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
