package dataset

import (
	"context"
	"fmt"
	"testing"
)

func TestFields(t *testing.T) {
	d, _ := threeFiles(t)
	fields, err := d.Fields(context.Background())
	if err != nil || fmt.Sprint(fields) != "[float32[3] int64[1]]" {
		t.Fatalf("fields %v, error %v", fields, err)
	}
	if none, err := new(Dataset).Fields(context.Background()); err != nil || none != nil {
		t.Fatalf("fields of nothing %v, error %v", none, err)
	}
}
