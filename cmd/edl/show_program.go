package main

import (
	"context"
	"os"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/program/draw"
)

// showProgram writes a program in the form that is asked for. It need not be one that would run.
func showProgram(ctx context.Context, c *console, f *showFlags, path string) error {
	p, _, err := loadProgram(path)
	if err != nil {
		return err
	}
	if f.svg != "" {
		return drawProgram(ctx, c, p, f.svg)
	}
	if f.plan {
		return showPlan(ctx, c, f, p)
	}
	switch f.as.value {
	case "json":
		return p.JSON(c.out)
	case "prototext":
		text, err := p.ProtoText()
		if err != nil {
			return err
		}
		_, err = c.out.Write(text)
		return err
	}
	return p.Text(c.out, program.TextOptions{Full: f.full})
}

func drawProgram(ctx context.Context, c *console, p *program.Program, path string) error {
	svg, err := draw.SVG(ctx, p)
	if err != nil {
		return err
	}
	if path == "-" {
		_, err = c.out.Write(svg)
		return err
	}
	return fileFault(path, os.WriteFile(path, svg, 0o666))
}
