// Held packages in the way of an installation: providers that can hold packages
// (pkgHolder) say which are held, and either those are left out and reported, or
// they are released for the installation and held again.
package main

import (
	"context"
	"strings"
)

// pkgHolder is a provider whose held packages matter for an installation.
type pkgHolder interface {
	// held lists the names of held packages.
	held(ctx context.Context, c *Call) ([]string, error)
	setHeld(ctx context.Context, c *Call, names []string, on bool) error
	// movesHeld says whether an installation may release them.
	movesHeld(kwargs *Map) bool
}

// pkgHolds is what one installation does about them.
type pkgHolds struct {
	p        pkgHolder
	held     []string
	moves    bool
	released []string // to be held again
	kept     []string // left out
}

func (m pkgCommon) startHolds(ctx context.Context, c *Call, kwargs *Map) (*pkgHolds, error) {
	p, ok := m.p.(pkgHolder)
	if !ok {
		return &pkgHolds{}, nil
	}
	held, err := p.held(ctx, c)
	return &pkgHolds{p: p, held: held, moves: p.movesHeld(kwargs)}, err
}

// keeps says whether a package is not to be touched, and notes it.
func (h *pkgHolds) keeps(name string) bool {
	switch {
	case !hasString(h.held, name):
		return false
	case h.moves:
		h.released = append(h.released, name)
		return false
	}
	h.kept = append(h.kept, name)
	return true
}

func (h *pkgHolds) release(ctx context.Context, c *Call) error { return h.set(ctx, c, false) }
func (h *pkgHolds) restore(ctx context.Context, c *Call) error { return h.set(ctx, c, true) }

func (h *pkgHolds) set(ctx context.Context, c *Call, on bool) error {
	if len(h.released) == 0 {
		return nil
	}
	return h.p.setHeld(ctx, c, h.released, on)
}

func (h *pkgHolds) problem() string {
	if len(h.kept) == 0 {
		return ""
	}
	return "The following package(s) could not be updated because they are being held: " + strings.Join(h.kept, ", ") +
		". Set 'update_holds' to True to temporarily unhold these packages so that they can be updated."
}
