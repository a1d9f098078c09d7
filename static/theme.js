// Sets the chosen theme before the first paint; the system's own is the default. A classic script, so that it blocks.
(function () {
  "use strict";
  const key = "flipscope.theme";
  function stored() {
    try {
      return localStorage.getItem(key);
    } catch {
      return null; // storage can be switched off
    }
  }
  const theme = stored();
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
