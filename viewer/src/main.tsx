import { render } from "preact";
import { App } from "./app";
import { Page } from "./page";

const root = document.getElementById("app")!;

Page.open(document).then(
  (page) => {
    root.replaceChildren();
    render(<App page={page} />, root);
  },
  (error: unknown) => {
    // What stands in the page for readers without JavaScript stays.
    const note = document.createElement("p");
    note.setAttribute("role", "alert");
    note.textContent = `The cases cannot be shown: ${String(error)}. Use a browser of 2024 or later.`;
    root.prepend(note);
  },
);
