"use strict";
// What the page does beyond plain HTML. Without it everything can be read and decided.
