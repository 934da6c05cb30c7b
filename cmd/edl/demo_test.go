package main

import (
	"bytes"
	"testing"
)

// The demo is the first thing that people see: every way of training must learn the digits.
func TestDemoLearnsDigits(t *testing.T) {
	if testing.Short() {
		t.Skip("the whole demo takes a while")
	}
	edl := edlFile(t)
	var out bytes.Buffer
	d := &demo{console: &console{out: &out, err: &out, binary: edl}, dir: t.TempDir(), count: 6000}
	if err := d.run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if len(d.rows) != 3 {
		t.Errorf("the table has %d rows, want 3", len(d.rows))
	}
	for _, row := range d.rows {
		if row.accuracy <= 0.97 || row.rate <= 0 {
			t.Errorf("%s: accuracy %g, %g records/s", row.name, row.accuracy, row.rate)
		}
	}
}
