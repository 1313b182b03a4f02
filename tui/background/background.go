// Package background tells lipgloss that the terminal has a dark background, so that bubbletea does
// not ask the terminal for it.
//
// Package bubbletea 1.x asks in its init function: each command of a program that imports it writes
// two escape sequences, waits up to five seconds for the answers, and swallows what is typed
// meanwhile. Go initializes a package as soon as its imports are initialized, and sorts packages
// that are ready by import path. This package needs lipgloss alone, so it is ready no later than
// bubbletea, and its path sorts before "github.com/". That is why it is a module of its own: all
// paths of module svc sort after "github.com/". 'svc tui' sets the background of its own renderer.
package background

import "github.com/charmbracelet/lipgloss"

func init() { lipgloss.SetHasDarkBackground(true) }
