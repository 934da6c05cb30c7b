package convert

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
)

// table is n rows whose column c holds row*(c+1), and whose price is the row.
func table(n int) string {
	var b strings.Builder
	for row := range n {
		for c := range housingFeatures {
			fmt.Fprintf(&b, " %d ", row*(c+1))
		}
		fmt.Fprintf(&b, "\t%d\n", row)
	}
	return b.String()
}

func TestHousingNormalisesOverAllRows(t *testing.T) {
	train, test := &kept{t: t}, &kept{t: t}
	trained, tested, err := Housing(background, strings.NewReader(table(11)), train, test)
	if err != nil || trained != 8 || tested != 3 || len(train.samples) != 8 || len(test.samples) != 3 {
		t.Fatalf("%d and %d samples, error %v", trained, tested, err)
	}
	for i, s := range append(train.samples, test.samples...) {
		if price := s[1].Float32s()[0]; price != float32(i) {
			t.Errorf("row %d has price %v", i, price)
		}
		for c, v := range s[0].Float32s() {
			if want := (float64(i) - 5) / 10; math.Abs(float64(v)-want) > 1e-6 {
				t.Errorf("row %d, column %d: %v, want %v", i, c, v, want)
			}
		}
	}
}

func TestHousingErrorsNameTheLine(t *testing.T) {
	row := strings.Repeat("1 ", 14) + "\n"
	for name, c := range map[string]struct {
		text string
		kind fault.Kind
		want string
	}{
		"short line": {row + "\n1 2 3\n", fault.Corrupt, "line 3: corrupt data: got 3 columns, want 14"},
		"no number":  {row + "x" + row[1:], fault.Corrupt, `line 2, variable "column 0"`},
		"nan":        {strings.Replace(row, "1", "nan", 1), fault.Corrupt, "line 1"},
		"long line":  {row + strings.Repeat(" ", maxLine+1), fault.TooLarge, "line 2"},
		"constant":   {row + row, fault.InvalidArgument, "column 0"},
	} {
		_, _, err := Housing(background, strings.NewReader(c.text), &kept{t: t}, &kept{t: t})
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %v: %s", name, err, c.kind, c.want)
		}
	}
}

func TestRealHousing(t *testing.T) {
	root := os.Getenv("EDL_TESTDATA")
	if root == "" {
		t.Skip("EDL_TESTDATA is unset: no housing.data")
	}
	f, err := os.Open(filepath.Join(root, "housing", "housing.data"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	train, test := &kept{t: t}, &kept{t: t}
	trained, tested, err := Housing(background, f, train, test)
	if err != nil || trained != 404 || tested != 102 {
		t.Fatalf("%d and %d samples, error %v", trained, tested, err)
	}
	if got := train.samples[0][1].Float32s()[0]; got != 24 {
		t.Errorf("the first house costs %v", got)
	}
	sums := make([]float64, housingFeatures)
	for _, s := range append(train.samples, test.samples...) {
		for i, v := range s[0].Float32s() {
			sums[i] += float64(v)
		}
	}
	for i, sum := range sums {
		if math.Abs(sum) > 1e-4 {
			t.Errorf("feature %d has mean %v", i, sum/506)
		}
	}
}
